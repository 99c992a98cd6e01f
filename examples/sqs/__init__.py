"""A program with boto3, whose endpoint alone changed."""
