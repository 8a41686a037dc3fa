/** Conversations under headings by the day of their last activity, in the person's own time zone. */

export interface Group<T> {
  heading: string;
  items: T[];
}

const DAY = 86_400_000;

/** Whole calendar days from `then` to `now`; a clock that is slightly ahead counts as today. */
export function daysBetween(then: Date, now: Date): number {
  return Math.max(0, Math.round((startOfDay(now) - startOfDay(then)) / DAY));
}

/** As if the day were in UTC, so that every day has 24 hours. */
function startOfDay(date: Date): number {
  return Date.UTC(date.getFullYear(), date.getMonth(), date.getDate());
}

export function headingFor(then: Date, now: Date): string {
  const days = daysBetween(then, now);
  if (days === 0) return "Today";
  if (days === 1) return "Yesterday";
  if (days <= 7) return "Previous 7 days";
  if (days <= 30) return "Previous 30 days";
  const month = then.toLocaleDateString("en", { month: "long" });
  return then.getFullYear() === now.getFullYear() ? month : `${month} ${then.getFullYear()}`;
}

/** `items` in the order given, which is newest first, cut where the heading changes. */
export function groupByDate<T extends { updated_at: string }>(items: T[], now: Date): Group<T>[] {
  const groups: Group<T>[] = [];
  for (const item of items) {
    const heading = headingFor(new Date(item.updated_at), now);
    const last = groups.at(-1);
    if (last?.heading === heading) last.items.push(item);
    else groups.push({ heading, items: [item] });
  }
  return groups;
}
