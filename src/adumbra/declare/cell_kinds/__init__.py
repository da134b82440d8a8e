"""What a cell can be: one file each, with what may be declared, how a cell is read and how it is written again."""
