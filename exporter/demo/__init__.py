"""A simulated fleet of LLM inference servers: queueing model, genuine pages, faults, ports to scrape."""
