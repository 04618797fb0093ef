"""What the measurements show: conditions and incidents, series and gauges, trends, objectives, anomalies."""
