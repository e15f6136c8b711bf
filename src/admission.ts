import { loadClientTokens } from './access.ts';
import { AuditLog } from './audit.ts';
import type { Closers } from './closers.ts';
import type { Config } from './config.ts';
import { Authenticator } from './http/authenticate.ts';
import { Links, longestLife } from './http/links.ts';
import { SealedBearers } from './http/sealed-bearers.ts';
import type { Logger } from './logger.ts';
import type { Policy } from './mirror/policy.ts';
import { redisSettings } from './redis.ts';
import { LinkKeys } from './store/link-keys.ts';

/** Who may have what, and where it is written down who had it. */
export interface Admission {
  readonly audit: AuditLog | undefined;
  readonly authenticator: Authenticator;
  /** Where archives are linked to without a token. */
  readonly links: Links | undefined;
}

/** @throws InvalidConfiguration, StorageFailed */
export async function assembleAdmission(
  config: Config,
  { policy, opened, logger }: { policy: Policy; opened: Closers; logger: Logger },
): Promise<Admission> {
  const audit = config.log.audit === undefined ? undefined : new AuditLog({ file: config.log.audit, logger });
  opened.add('audit log', () => audit?.close());
  const needsLinks = config.access.anonymous === 'none' || policy.hostnames.some((host) => policy.forwards(host));
  const linkKeys = needsLinks ? await openLinkKeys(config, logger) : undefined;
  opened.add('link keys', () => linkKeys?.close());
  linkKeys?.watch();
  const authenticator = new Authenticator({
    anonymous: config.access.anonymous,
    tokens: await loadClientTokens(config.access.tokens, { logger }),
    publicUrl: config.publicUrl,
    sealed: linkKeys && new SealedBearers({ keys: linkKeys }),
  });
  const links = linkKeys && new Links({ keys: linkKeys, lifetimeMs: config.access.links.lifetime });
  return { audit, authenticator, links };
}

/** Also for changing them beside a running server. The caller closes them. @throws StorageFailed */
export async function openLinkKeys(config: Config, logger: Logger): Promise<LinkKeys> {
  return LinkKeys.open({
    directory: config.data,
    redis: await redisSettings(config),
    lifetimeMs: longestLife(config.access.links.lifetime),
    logger,
  });
}
