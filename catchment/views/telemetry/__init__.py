"""What the measurements show: every series for the exports, and the gauges."""
