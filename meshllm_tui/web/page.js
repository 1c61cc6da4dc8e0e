"use strict";

// The page's own script: an inline one would need a looser content security policy.
document.getElementById("again").addEventListener("click", () => {
  window.location.href = "/";
});

// Keys are for the dashboard, without a click into it first.
new MutationObserver((_, observer) => {
  const keys = document.querySelector(".xterm-helper-textarea");
  if (keys !== null && document.body.classList.contains("-first-byte")) {
    observer.disconnect();
    keys.focus();
  }
}).observe(document.body, { attributeFilter: ["class"] });
