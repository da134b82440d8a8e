"""What a draft of a schema recognises in a table: kinds, ranges, ids, sets, blanks, likely rules."""
