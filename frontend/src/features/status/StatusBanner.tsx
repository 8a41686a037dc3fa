/** Says in plain words which part of the system is down and what that means. Goes away by itself. */
import { useQuery } from "@tanstack/react-query";
import { TriangleAlert } from "lucide-react";
import type { ReactNode } from "react";

import { api, body } from "@/app/api";

import { sayWhatIsWrong } from "./sentences";

const WELL_EVERY = 15_000;
const ILL_EVERY = 3_000;

export function StatusBanner({ liveAvailable }: { liveAvailable: boolean }): ReactNode {
  const status = useQuery({
    queryKey: ["status"],
    queryFn: () => body(api.GET("/api/status")),
    retry: 1,
    refetchInterval: (query) =>
      query.state.data?.ok && !query.state.error && liveAvailable ? WELL_EVERY : ILL_EVERY,
  });
  const sentences = sayWhatIsWrong({
    components: status.data?.components ?? null,
    unreachable: status.isError && "status" in status.error && status.error.status === 0,
    liveAvailable,
  });
  return (
    <div role="status" aria-label="State of the system">
      {sentences.length > 0 && (
        <div className="border-b border-line bg-warn-soft text-sm text-warn-ink">
          <div className="mx-auto flex max-w-[46rem] items-start gap-2.5 px-4 py-2 sm:px-6">
            <TriangleAlert aria-hidden size={16} className="mt-0.5 shrink-0" />
            <div>
              {sentences.map((sentence) => (
                <p key={sentence}>{sentence}</p>
              ))}
            </div>
          </div>
        </div>
      )}
    </div>
  );
}
