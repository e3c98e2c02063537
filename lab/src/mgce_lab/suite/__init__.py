"""Tables on which constants are chosen, and tables that are locked until a choice is committed."""
