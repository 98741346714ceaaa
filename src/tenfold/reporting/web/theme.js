"use strict";
// Light or dark: as the system says until the button is pressed. The choice is kept where the browser lets a file keep it.

function theme() {
  const root = document.documentElement, button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  const label = () => {
    button.textContent = dark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Change to ${dark() ? "light" : "dark"} colours`);
  };
  try {
    const kept = localStorage.getItem("tenfold-theme");
    if (kept === "light" || kept === "dark") root.dataset.theme = kept;
  } catch { /* a browser may refuse storage to files */ }
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    try { localStorage.setItem("tenfold-theme", root.dataset.theme); } catch { /* as above */ }
    label();
  });
  system.addEventListener("change", label);
  label();
}

theme();
