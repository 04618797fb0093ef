"""What was measured: the rollups of the metrics, and the incidents."""
