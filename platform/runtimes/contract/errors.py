"""Why a runtime did not do what it was asked."""


class Unavailable(Exception):
    """The engine does not answer; the next reconcile round retries."""


class Rejected(Exception):
    """The engine will never run this task; the message is the engine's own."""


class NodeRefused(Rejected):
    """This node cannot run the task; another may."""
