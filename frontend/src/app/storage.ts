/** The browser's storage, which may be blocked or full: then choices last as long as the page. */

export function storageRead(key: string): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

/** Null removes the entry. */
export function storageWrite(key: string, value: string | null): void {
  try {
    if (value === null) localStorage.removeItem(key);
    else localStorage.setItem(key, value);
  } catch {
    // What is on the page is still there.
  }
}
