"""What is shown to people: documents, and what renders them for a terminal, Markdown, HTML and JSON."""
