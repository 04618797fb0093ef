"""The results of the measurements: conditions and incidents, series and gauges, trends, objectives, anomalies."""
