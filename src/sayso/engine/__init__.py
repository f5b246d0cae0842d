"""What makes runs move. The only place that awaits effects."""
