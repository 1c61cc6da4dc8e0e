"""The history of conversations: one SQLite file of this user, read and written beside the screen."""
