"""The application of the site."""
