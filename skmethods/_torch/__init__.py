"""Shared torch plumbing. Nothing here imports torch before it is used."""
