/** Which addresses in a model's text may become links. Everything else stays text. */

const ALLOWED = new Set(["http:", "https:", "mailto:"]);

/** The address in normal form, or null when it must not be a link. Relative addresses are not links either. */
export function safeHref(href: string): string | null {
  try {
    const url = new URL(href);
    return ALLOWED.has(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}
