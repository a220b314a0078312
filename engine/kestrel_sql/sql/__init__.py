"""Parses SQL text to syntax trees and formats trees as text."""
