import http from 'node:http';
import type { Express } from 'express';

/** What a server makes of requests and answers, for its options. */
export type MessageClasses = Required<Pick<http.ServerOptions, 'IncomingMessage' | 'ServerResponse'>>;

/**
 * Express gives each request and answer another prototype, which makes Node forget all it has compiled for them, and let
 * what they leave behind grow old: half of the throughput. So they are made by classes that have Express's prototypes
 * above theirs in the first place, and Express is told that theirs are the ones to give: then nothing changes under way.
 */
export function messageClassesOf(application: Express): MessageClasses {
  class Request extends http.IncomingMessage {}
  class Answer extends http.ServerResponse {}
  Object.setPrototypeOf(Request.prototype, application.request);
  Object.setPrototypeOf(Answer.prototype, application.response);
  application.request = Request.prototype as unknown as Express['request'];
  application.response = Answer.prototype as unknown as Express['response'];
  return { IncomingMessage: Request, ServerResponse: Answer } as unknown as MessageClasses;
}
