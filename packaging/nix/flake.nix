# Builds ktrial from the sources that it lies in: nix run ./packaging/nix, or as an input of your system's flake.
{
  description = "Puts Linux kernel tweaks on trial";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";
  inputs.source = {
    url = "path:../..";
    flake = false;
  };

  outputs = { self, nixpkgs, source }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" ];
      each = make: nixpkgs.lib.genAttrs systems (system: make nixpkgs.legacyPackages.${system});
    in
    {
      packages = each (pkgs: rec {
        # One static binary: glibc.static holds the libc.a that the flags in agent/.cargo/config.toml ask for.
        agent = pkgs.rustPlatform.buildRustPackage {
          pname = "ktrial-agent";
          version = (builtins.fromTOML (builtins.readFile "${source}/agent/Cargo.toml")).package.version;
          src = "${source}/agent";
          cargoLock.lockFile = "${source}/agent/Cargo.lock";
          buildInputs = [ pkgs.glibc.static ];
          # The tests change kernel settings, which no build may.
          doCheck = false;
        };

        ktrial = pkgs.python3Packages.buildPythonApplication {
          pname = "ktrial";
          inherit (agent) version;
          pyproject = true;
          src = source;
          build-system = with pkgs.python3Packages; [ setuptools setuptools-rust ];
          dependencies = with pkgs.python3Packages; [
            alembic
            click
            duckdb
            jeepney
            msgspec
            numpy
            scipy
            sqlalchemy
            vl-convert-python
            zstandard
          ];
          env.KTRIAL_AGENTS = "agents";
          env.KTRIAL_ARCHITECTURE = pkgs.stdenv.hostPlatform.parsed.cpu.name;
          preBuild = ''
            mkdir agents
            cp ${agent}/bin/ktrial-agent agents/ktrial-agent-$KTRIAL_ARCHITECTURE
          '';
          doCheck = false;
          meta = {
            description = "Puts Linux kernel tweaks on trial";
            license = pkgs.lib.licenses.asl20;
            platforms = systems;
            mainProgram = "ktrial";
          };
        };

        default = ktrial;
      });
    };
}
