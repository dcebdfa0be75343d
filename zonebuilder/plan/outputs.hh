#pragma once
// A plan as texts of files; nothing here touches a file.

#include "zonebuilder/plan/plan.hh"
#include "zonebuilder/zone/zone.hh"

#include <cstddef>
#include <string>
#include <vector>

namespace reprise::zonebuilder {

/// map.tsv: what the data paths need.
std::string map_text(const Plan& plan, const PlanSettings& settings);

/// The emulated root's servers and their addresses; without a root zone only a comment.
std::string root_hints(const Plan& plan);

/// The root's key-signing keys as zone text; empty where the root is unsigned.
std::string root_key(const Plan& plan);

/// plan.json, schema 1.
std::string plan_json(const Plan& plan, const PlanSettings& settings,
                      const std::vector<Zone>& zones, const std::vector<BadZone>& failed);

/// What a person wants to know, a few lines.
std::string summary_text(const Plan& plan, const PlanSettings& settings,
                         const std::vector<Zone>& zones, const std::vector<BadZone>& failed);

const char* name_of(Engine engine);
const char* name_of(Form form);

} // namespace reprise::zonebuilder
