"""Accounts: who is signed in, and how: a session, a one-time link or an API token."""
