import { Hostname } from '../address/hostname.ts';
import { ModuleAddress, ModuleRelease } from '../address/module.ts';
import { Version } from '../address/version.ts';
import { RequestError } from './request-error.ts';

/** What routes of the form `/:hostname/…/:namespace/:name/:system/…` capture. */
export interface ModuleParams {
  readonly hostname: string;
  readonly namespace: string;
  readonly name: string;
  readonly system: string;
  readonly [name: string]: string;
}

/** @throws InvalidAddress */
export function parseModule({ hostname, namespace, name, system }: ModuleParams): ModuleAddress {
  return new ModuleAddress(Hostname.parse(hostname), namespace, name, system);
}

/** The version may be spelled as registries publish it, too: `v1.0.0`, `1.0`. @throws InvalidAddress */
export function parseRelease(params: ModuleParams & { version: string }): ModuleRelease {
  const { version } = params;
  return new ModuleRelease(parseModule(params), Version.fromPublished(version) ?? Version.parse(version));
}

/** A release by the name of its package. @throws InvalidAddress, RequestError */
export function parsePackage(params: ModuleParams & { version: string; filename: string }): ModuleRelease {
  const release = parseRelease(params);
  if (params.filename === release.filename) return release;
  throw new RequestError(404, 'NOT_FOUND', `there is no such file; the package of this version is ${release.filename}`);
}
