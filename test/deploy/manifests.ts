import { expect } from 'vitest';

interface Probe {
  readonly httpGet?: { readonly path: string; readonly port: string | number; readonly scheme?: string };
}

interface Container {
  readonly name: string;
  readonly args?: readonly string[];
  readonly ports: readonly { readonly name: string; readonly containerPort: number }[];
  readonly readinessProbe?: Probe;
  readonly livenessProbe?: Probe;
  readonly startupProbe?: Probe;
  readonly securityContext?: Readonly<Record<string, unknown>>;
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[];
  readonly resources: { readonly requests?: object; readonly limits?: object };
}

interface Volume {
  readonly name: string;
  readonly persistentVolumeClaim?: { readonly claimName: string };
  readonly configMap?: { readonly name: string };
  readonly secret?: { readonly secretName: string };
  readonly emptyDir?: object;
}

interface PodSpec {
  readonly terminationGracePeriodSeconds?: number;
  readonly automountServiceAccountToken?: boolean;
  readonly securityContext?: Readonly<Record<string, unknown>>;
  readonly containers: readonly Container[];
  readonly volumes: readonly Volume[];
}

/** What tests look at in a manifest of Kubernetes. */
export interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly labels?: Readonly<Record<string, string>> };
  readonly data?: Readonly<Record<string, string>>;
  readonly stringData?: Readonly<Record<string, string>>;
  readonly spec: {
    readonly replicas?: number;
    readonly selector?: object;
    readonly podSelector?: { readonly matchLabels: object };
    readonly ports?: readonly object[];
    readonly template?: {
      readonly metadata: { readonly labels: Readonly<Record<string, string>> };
      readonly spec: PodSpec;
    };
  };
}

/** What every workload owes whoever runs it: no root, nothing that can be written but volumes, names that lead somewhere. */
export function checkWorkload({ metadata, spec }: Manifest): void {
  const pod = spec.template?.spec;
  if (!pod) throw new Error(`${metadata.name} has no pods`);
  expect(spec.selector).toEqual({ matchLabels: spec.template?.metadata.labels });
  expect(pod.automountServiceAccountToken, metadata.name).toBe(false);
  expect(pod.securityContext, metadata.name).toMatchObject({
    runAsNonRoot: true,
    seccompProfile: { type: 'RuntimeDefault' },
  });
  const volumes = pod.volumes.map(({ name }) => name);
  for (const container of pod.containers) {
    expect(container.securityContext, container.name).toMatchObject({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    });
    expect(container.resources).toMatchObject({ requests: expect.any(Object), limits: expect.any(Object) });
    const mounted = container.volumeMounts.map(({ name }) => name);
    expect([...volumes].sort()).toEqual([...mounted].sort());
    const ports = container.ports.map(({ name }) => name);
    for (const probe of [container.readinessProbe, container.livenessProbe, container.startupProbe]) {
      if (probe?.httpGet) expect(ports).toContain(probe.httpGet.port);
    }
  }
}
