/** Unsent text, kept in the browser for each person and conversation so that no reload, crash or sign-out loses it. */

const DELAY = 150;
const waiting = new Map<string, { text: string; timer: ReturnType<typeof setTimeout> }>();

export function draftKey(userId: number | string, conversationId: string | null): string {
  return `agentx:draft:${userId}:${conversationId ?? "new"}`;
}

export function draftRead(key: string): string {
  const unsaved = waiting.get(key);
  if (unsaved) return unsaved.text;
  try {
    return localStorage.getItem(key) ?? "";
  } catch {
    return "";
  }
}

function store(key: string, text: string): void {
  try {
    if (text) localStorage.setItem(key, text);
    else localStorage.removeItem(key);
  } catch {
    // Full or blocked storage: the text is still in the box.
  }
}

/** Written after 150 ms without a further change, or when the page is left. */
export function draftWrite(key: string, text: string): void {
  clearTimeout(waiting.get(key)?.timer);
  const timer = setTimeout(() => {
    waiting.delete(key);
    store(key, text);
  }, DELAY);
  waiting.set(key, { text, timer });
}

export function draftsFlush(): void {
  for (const [key, { text, timer }] of waiting) {
    clearTimeout(timer);
    store(key, text);
  }
  waiting.clear();
}

window.addEventListener("pagehide", draftsFlush);
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "hidden") draftsFlush();
});
