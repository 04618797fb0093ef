"""What the measurements show: every series for the exports, gauges, trends, objectives, anomalies and retries."""
