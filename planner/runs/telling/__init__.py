"""Messages to the person while a run goes on: which news, to whom, delivered how."""
