"""A door for programs that speak SQS."""
