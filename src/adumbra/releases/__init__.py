"""The record of a release: card, folder, signature."""
