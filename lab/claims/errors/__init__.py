"""Errors that circulate, each with what is right and a program that shows it."""
