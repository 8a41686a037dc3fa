/** The state of the parts, as sentences about what a person can and cannot do. */
import { words } from "@/app/words";
import type { ComponentBody } from "@/wire/schema";

interface Known {
  components: Record<string, ComponentBody> | null;
  unreachable: boolean;
  liveAvailable: boolean;
}

/** Worst first. Parts that depend on a part that is down are not named besides it. */
export function sayWhatIsWrong({ components, unreachable, liveAvailable }: Known): string[] {
  if (unreachable) return [words.banner.unreachable];
  const down = (name: string): boolean => components?.[name]?.ok === false;
  if (down("database")) return [words.banner.database];
  const sentences: string[] = [];
  if (down("runner")) sentences.push(words.banner.runner);
  if (down("model")) sentences.push(words.banner.model);
  if (down("redis") || !liveAvailable) sentences.push(words.banner.live);
  if (down("worker")) sentences.push(words.banner.worker);
  return sentences;
}
