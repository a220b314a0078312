"""Drivers run cases on the engine: in memory, on a broker, from stored plans, as REST requests and as scripts."""
