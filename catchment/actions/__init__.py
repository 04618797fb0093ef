"""What an operator does: one function for each action."""
