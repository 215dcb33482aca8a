"""What a person or a program reads: tables, explanations, JSON."""
