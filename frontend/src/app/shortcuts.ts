/** Keys that work wherever the focus is. Those of the browser are left alone. */
import { useEffect } from "react";

export interface ShortcutActions {
  newChat: () => void;
  toggleSidebar: () => void;
  focusMessageBox: () => void;
}

type Press = Pick<KeyboardEvent, "key" | "code" | "shiftKey" | "altKey" | "ctrlKey" | "metaKey">;

/** By the key's place as well as its letter, so that the shortcuts work on keyboards of other scripts. */
export function findShortcut(press: Press): keyof ShortcutActions | null {
  const mod = press.ctrlKey !== press.metaKey;
  if (press.altKey || !press.shiftKey) return null;
  if (press.key === "Escape" && !press.ctrlKey && !press.metaKey) return "focusMessageBox";
  if (mod && (press.code === "KeyO" || press.key.toLowerCase() === "o")) return "newChat";
  if (mod && (press.code === "KeyS" || press.key.toLowerCase() === "s")) return "toggleSidebar";
  return null;
}

export function useShortcuts(actions: ShortcutActions): void {
  useEffect(() => {
    const press = (event: KeyboardEvent): void => {
      const name = findShortcut(event);
      if (!name || document.querySelector("[role=alertdialog]")) return;
      event.preventDefault();
      actions[name]();
    };
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  }, [actions]);
}
