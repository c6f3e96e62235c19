# What a program is made of, as CycloneDX 1.5, of `cargo metadata` and what `cargo tree` says is in
# the build. Source: <https://cyclonedx.org/docs/1.5/json/>.
#   cargo metadata --locked --format-version 1 | jq --args -f sbom.jq braid-0.1.0 NAME@VERSION …
#   --arg time 2026-11-24T00:00:00Z     when

($ARGS.positional | map({ key: ., value: true }) | from_entries) as $built
| [.packages[] | select($built["\(.name)@\(.version)"])] as $packages
| ([$packages[].id] | map({ key: ., value: true }) | from_entries) as $here
| ($packages[] | select(.name == "braid")) as $program
| def url: "pkg:cargo/\(.name)@\(.version)";
  def component:
    { type: "library", "bom-ref": url, name, version, purl: url }
    + (if .license then { licenses: [{ expression: (.license | gsub("/"; " OR ")) }] } else {} end)
    + (if .description then { description: (.description | gsub("\\s+"; " ")) } else {} end)
    + (if .repository then { externalReferences: [{ type: "vcs", url: .repository }] } else {} end);
  ($packages | map({ key: .id, value: url }) | from_entries) as $urls
| {
    bomFormat: "CycloneDX",
    specVersion: "1.5",
    version: 1,
    metadata: {
      timestamp: $time,
      component: (($program | component) + { type: "application" })
    },
    components: ([$packages[] | select(.id != $program.id) | component] | sort_by(.purl)),
    dependencies: ([.resolve.nodes[] | select($here[.id]) | {
      ref: $urls[.id],
      dependsOn: ([.dependencies[] | select($here[.]) | $urls[.]] | unique)
    }] | sort_by(.ref))
  }
