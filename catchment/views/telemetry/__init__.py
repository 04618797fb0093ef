"""What is measured and judged, for people: incidents, figures, objectives."""
