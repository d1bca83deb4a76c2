"""The person's command: `koordctl demo` and what else a person asks of Koord."""
