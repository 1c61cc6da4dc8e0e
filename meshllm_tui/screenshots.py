"""Pictures of the screen: they go where a person looks for them, and if not, it is said why."""

from pathlib import Path

from textual import events

from meshllm_core.errors import describe
from meshllm_tui.theme_choice import ThemedApp


def export_folder() -> Path:
    """Where files for a person go: the folder of downloads where there is one, else the home directory."""
    from platformdirs import user_downloads_dir

    downloads = Path(user_downloads_dir())
    return downloads if downloads.is_dir() else Path.home()


class PicturedApp(ThemedApp):
    """An app whose screen can be kept as a picture."""

    def deliver_screenshot(
        self, filename: str | None = None, path: str | None = None, time_format: str | None = None
    ) -> str | None:
        """Save an SVG; in a browser it is downloaded. The toolkit's own folder need not exist."""
        return super().deliver_screenshot(filename, path or str(export_folder()), time_format)

    def on_delivery_failed(self, event: events.DeliveryFailed) -> None:
        """Say why, which the toolkit's own notice does not."""
        event.prevent_default()
        words = event.exception.strerror if isinstance(event.exception, OSError) else ""
        reason = words or describe(event.exception)
        text = f"The picture was not saved in {export_folder()}: {reason}."
        self.notify(text, severity="error", markup=False)
