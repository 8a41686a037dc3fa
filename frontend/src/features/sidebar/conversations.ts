/** The list of conversations: pages of it, and the changes a person makes to it. */
import {
  type InfiniteData,
  type QueryClient,
  useInfiniteQuery,
  useMutation,
  useQueryClient,
} from "@tanstack/react-query";

import { api, body } from "@/app/api";
import type { ConversationBody, ConversationPage } from "@/wire/schema";

const LIST = ["conversations"];
/** While something in the list is running, its end may come from another device. */
const REFETCH_WHILE_RUNNING = 5_000;

type Pages = InfiniteData<ConversationPage, string | null>;

export function useConversations() {
  return useInfiniteQuery({
    queryKey: LIST,
    initialPageParam: null as string | null,
    queryFn: ({ pageParam }) =>
      body(
        api.GET("/api/conversations", { params: { query: { cursor: pageParam ?? undefined, limit: 40 } } }),
      ),
    getNextPageParam: (page) => page.next,
    refetchInterval: (query) =>
      query.state.data?.pages.some((page) => page.results.some((item) => item.active_run))
        ? REFETCH_WHILE_RUNNING
        : false,
  });
}

export function listInvalidate(client: QueryClient): void {
  void client.invalidateQueries({ queryKey: LIST });
}

function editList(client: QueryClient, edit: (items: ConversationBody[]) => ConversationBody[]): void {
  client.setQueryData<Pages>(
    LIST,
    (data) =>
      data && { ...data, pages: data.pages.map((page) => ({ ...page, results: edit(page.results) })) },
  );
}

/** Shows what was just learnt about a conversation, a new one at the top. */
export function listUpsert(client: QueryClient, conversation: ConversationBody): void {
  const pages = client.getQueryData<Pages>(LIST)?.pages ?? [];
  const known = pages.some((page) => page.results.some((item) => item.id === conversation.id));
  if (known) {
    editList(client, (items) => items.map((item) => (item.id === conversation.id ? conversation : item)));
  } else {
    listInvalidate(client);
  }
}

export function useRename() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ id, title }: { id: string; title: string }) =>
      body(
        api.PATCH("/api/conversations/{conversation_id}", {
          params: { path: { conversation_id: id } },
          body: { title },
        }),
      ),
    onMutate: ({ id, title }) =>
      editList(client, (items) => items.map((item) => (item.id === id ? { ...item, title } : item))),
    onSettled: () => listInvalidate(client),
  });
}

export function useDelete() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (id: string) =>
      body(api.DELETE("/api/conversations/{conversation_id}", { params: { path: { conversation_id: id } } })),
    onMutate: (id) => editList(client, (items) => items.filter((item) => item.id !== id)),
    onSettled: () => listInvalidate(client),
  });
}
