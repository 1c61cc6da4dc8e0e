"""The dashboard's screens: home, help, dialogs."""
