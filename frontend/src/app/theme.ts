/** Light, dark or the system's choice. `public/theme.js` applies the same rule before the first paint. */
import { createStore } from "zustand/vanilla";

import { storageRead, storageWrite } from "./storage";

export type Theme = "system" | "light" | "dark";

const KEY = "agentx:theme";
const dark = window.matchMedia?.("(prefers-color-scheme: dark)");

function readTheme(): Theme {
  const stored = storageRead(KEY);
  return stored === "light" || stored === "dark" ? stored : "system";
}

function show(theme: Theme): void {
  const isDark = theme === "dark" || (theme === "system" && Boolean(dark?.matches));
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
}

export const themeStore = createStore<{ theme: Theme; choose: (theme: Theme) => void }>()((set) => ({
  theme: readTheme(),
  choose: (theme) => {
    storageWrite(KEY, theme);
    show(theme);
    set({ theme });
  },
}));

dark?.addEventListener("change", () => show(themeStore.getState().theme));
