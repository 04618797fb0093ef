"""What the figures say: trends, objectives, anomalies and retries."""
