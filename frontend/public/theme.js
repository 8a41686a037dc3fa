// Sets the theme before the first paint. A file of its own, since the page allows no inline script.
(function () {
  var chosen = null;
  try {
    chosen = localStorage.getItem("agentx:theme");
  } catch {
    // Storage may be blocked; the system's choice is used then.
  }
  var dark = chosen === "dark" || (chosen !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
})();
