"""Faults planted in whole implementations: which of their lines does a failing item name?"""
