import { z } from 'zod';
import { RequestError } from './request-error.ts';

/** A text that `parse` can read, or a problem in its words. */
export function parsed<T>(parse: (text: string) => T) {
  return z.string().transform((text, context): T => {
    try {
      return parse(text);
    } catch (error) {
      context.addIssue({ code: 'custom', message: (error as Error).message });
      return z.NEVER;
    }
  });
}

/** What was sent, in the shape it must have. @throws RequestError 400 naming each field that is wrong */
export function parseRequest<T>(schema: z.ZodType<T>, given: unknown): T {
  const result = schema.safeParse(given);
  if (result.success) return result.data;
  const problems = result.error.issues.map(({ path, message }) =>
    path.length > 0 ? `${path.join('.')}: ${message}` : message,
  );
  throw new RequestError(400, 'INVALID_REQUEST', problems.join('; '));
}
