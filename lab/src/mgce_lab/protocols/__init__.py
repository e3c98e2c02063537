"""Compare robust losses under published protocols (data, network, training), and under smaller ones of this package."""
