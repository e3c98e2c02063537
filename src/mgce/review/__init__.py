"""Suspect labels, their review by a person, and what the decisions tell: files, one HTML page, and bounds."""
