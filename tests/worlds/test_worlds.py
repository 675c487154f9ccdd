"""A world starts fresh, has the tools of its case file, changes by writes alone, and explains what it refuses."""

import json

import pytest

import toolkit as tk
from toolkit import resources
from toolkit.errors import ConfigError
from toolkit.worlds import WORLDS, WorldError, load_world
from toolkit.worlds.world import laid_over

ADDRESS = {"name": "Jon Berg", "street": "Skogvei 3", "postcode": "5003", "city": "Bergen", "country": "Norway"}
ORDER = {"items": [{"product_id": 606816, "size": "L"}], "ship_to": ADDRESS}
IDA = [{"name": "Ida Lind", "age_group": "adult"}]
SEAT = {"train": "IC 204", "date": "2027-05-09", "passengers": IDA}
DAY = {"origin": "Basel", "destination": "Bern", "date": "2027-05-04"}
MORNING = [{"start": "06:00", "end": "07:00", "celsius": 20}]
LIGHTS = [{"room": "study", "brightness": 9}]
CHANGING = {
    "travel": {"book_seats"},
    "home": {
        "set_temperature", "switch_light", "set_blinds", "start_appliance", "charge_car", "set_heating_schedule",
        "create_scene", "set_alert",
    },
    "lab": {"plot_histogram", "start_timer", "save_note"},
    "marketplace": {"place_order"},
}  # fmt: skip
# one call of every tool that reads
READS = {
    "travel": {
        "find_connections": {"origin": "basel", "destination": "Bern", "date": "2027-05-04"},
        "get_departures": {"stop": "Mill Bridge", "limit": 2},
        "get_delay": {"train": "ic204"},
        "list_lines": {},
        "get_weather": {"city": "Oslo", "day": "tomorrow"},
        "convert_currency": {"amount": 10, "from_currency": "EUR", "to_currency": "CHF"},
        "find_hotels": {"city": "Bern", "check_in": "2027-05-04", "check_out": "2027-05-06", "amenities": ["parking"]},
        "get_ticket_price": {"origin": "Basel", "destination": "Bern", "travellers": {"adults": 1, "children": 1}},
        "plan_bike_route": {"origin": "Old Port", "destination": "Elm Park"},
    },
    "home": {
        "get_indoor_climate": {"room": "study"},
        "get_energy_use": {"period": "today"},
        "get_solar_output": {},
        "compare_tariffs": {"annual_kwh": 1000, "heat_pump": True},
    },
    "lab": {
        "list_tables": {},
        "describe_column": {"table": "mice", "column": "weight"},
        "compare_groups": {"table": "mice", "value": "weight", "group": "diet", "test": "mann-whitney"},
        "correlate": {"table": "fish", "columns": ["length", "weight", "age"], "method": "spearman"},
        "filter_rows": {"table": "fish", "conditions": [{"column": "species", "op": "==", "value": "Trout"}]},
        "fit_line": {"table": "springs", "x": "extension", "y": "force", "through_origin": True},
        "convert_units": {"value": 1, "from_unit": "litre", "to_unit": "millilitre"},
        "read_sensor": {"device": "fridge"},
        "plan_dilution": {"stock_molar": 2, "target_molar": 0.1, "final_ml": 50},
    },
    "marketplace": {
        "recommend_clothes": {"category": "Bags"},
        "get_product_details": {"product_id": 527626},
        "get_similar_products": {"product_id": 527626},
        "get_designers_list": {},
        "get_designer_information": {"name": "Lumbra"},
        "get_order": {"order_id": 1},
    },
}
STARTS = {"marketplace": {"orders": [ORDER]}}
NAMES = list(WORLDS)


def call(world, name, /, **arguments):
    """Call as an agent does, and return the text of the result."""
    return tk.ToolInvoker(world.tools).invoke(tk.ToolCall(name, arguments)).result


@pytest.mark.parametrize("name", NAMES)
def test_the_tools_are_those_of_the_case_file(name):
    specs = json.loads(resources.path(f"data/cases/{name}.tools.json").read_text("utf-8"))
    tools = load_world(name).tools
    assert [tool.tool_spec for tool in tools] == specs
    assert {tool.name for tool in tools if tool.effect != "reads"} == CHANGING[name]


@pytest.mark.parametrize("name", NAMES)
def test_reads_change_nothing_and_say_the_same_each_time(name):
    one, other = load_world(name, STARTS.get(name)), load_world(name, STARTS.get(name))
    start = one.state
    assert set(READS[name]) == {tool.name for tool in one.tools} - CHANGING[name]
    for tool, arguments in READS[name].items():
        said = call(one, tool, **arguments)
        assert json.loads(said) not in ([], {}, None), tool
        assert said == call(one, tool, **arguments) == call(other, tool, **arguments)
    assert one.state == start == json.loads(json.dumps(start))


@pytest.mark.parametrize(
    ("name", "tool", "arguments", "path", "value"),
    [
        ("travel", "book_seats", SEAT, "bookings.0.total", 38.0),
        ("home", "set_temperature", {"room": "study", "celsius": 20}, "rooms.study.wanted_celsius", 20),
        ("home", "switch_light", {"room": "study", "on": True, "brightness": 5}, "rooms.study.light", 5),
        ("home", "switch_light", {"room": "study", "on": False, "brightness": 5}, "rooms.study.light", 0),
        ("home", "set_blinds", {"room": "study", "position": 30}, "rooms.study.blinds", 30),
        ("home", "start_appliance", {"appliance": "dishwasher"}, "appliances.dishwasher.state", "running"),
        ("home", "start_appliance", {"appliance": "dishwasher", "start_at": "22:00"},
         "appliances.dishwasher.state", "waiting"),
        ("home", "charge_car", {"until_percent": 80, "ready_by": "07:00"}, "car.ready_by", "07:00"),
        ("home", "set_heating_schedule", {"room": "study", "slots": MORNING}, "rooms.study.schedule.0.celsius", 20),
        ("home", "create_scene", {"name": "dusk", "lights": LIGHTS}, "scenes.0.name", "dusk"),
        ("home", "set_alert",
         {"room": "study", "condition": {"measure": "humidity", "comparison": "above", "limit": 60}},
         "rooms.study.alerts.0.limit", 60),
        ("lab", "plot_histogram", {"table": "mice", "column": "age"}, "plots.0.bins", 20),
        ("lab", "start_timer", {"minutes": 5, "label": "gel"}, "timers.0.label", "gel"),
        ("lab", "save_note", {"text": "Done.", "tags": ["x"]}, "notes.0.tags", ["x"]),
        ("marketplace", "place_order", {**ORDER, "gift_wrap": True}, "orders.0.gift_wrap", True),
    ],
)  # fmt: skip
def test_writes_show_in_the_state_of_this_world_only(name, tool, arguments, path, value):
    world, other = load_world(name), load_world(name)
    before = world.state
    call(world, tool, **arguments)
    found = world.state
    for step in path.split("."):
        found = found[int(step) if step.isdigit() else step]
    assert found == value
    assert before == other.state != world.state


@pytest.mark.parametrize(
    ("name", "start", "tool", "arguments", "message"),
    [
        ("travel", None, "find_connections", {**DAY, "origin": "Bassel"}, "'Basel'"),
        ("travel", None, "find_connections", {**DAY, "destination": "Nice"}, "'Nice'"),
        ("travel", None, "find_connections", {**DAY, "destination": "Oslo"}, "No train"),
        ("travel", None, "find_connections", {**DAY, "date": "tomorrow"}, "YYYY-MM-DD"),
        ("travel", None, "find_connections", {**DAY, "depart_after": "noon"}, "HH:MM"),
        ("travel", None, "book_seats", {**SEAT, "date": "2027-05-02"}, "in the past"),
        ("travel", None, "book_seats", {**SEAT, "passengers": []}, "no passenger"),
        ("travel", None, "book_seats", {**SEAT, "train": "NT 61"},
         "0 free seats in second class and 3 in first"),
        ("travel", None, "find_hotels", {"city": "Bern", "check_in": "2027-05-09", "check_out": "2027-05-09"}, "after"),
        ("travel", None, "get_ticket_price",
         {"origin": "Basel", "destination": "Bern", "travellers": {"adults": 0}}, "Nobody"),
        ("travel", None, "plan_bike_route", {"origin": "Old Port", "destination": "old port"}, "two places"),
        ("home", None, "set_temperature", {"room": "study", "celsius": 50}, "5 to 30"),
        ("home", {"wind_alarm": True}, "set_blinds", {"room": "study", "position": 10}, "wind alarm"),
        ("home", {"appliances": {"dishwasher": {"fault": "its door is open"}}}, "start_appliance",
         {"appliance": "dishwasher"}, "door is open"),
        ("home", {"appliances": {"dishwasher": {"state": "running"}}}, "start_appliance",
         {"appliance": "dishwasher"}, "running already"),
        ("home", {"car": {"plugged_in": False}}, "charge_car", {"until_percent": 80}, "plugged in"),
        ("home", None, "charge_car", {"until_percent": 40}, "at 40 percent already"),
        ("home", None, "compare_tariffs", {"annual_kwh": 0}, "above 0"),
        ("home", None, "create_scene", {"name": "x", "lights": []}, "at least one light"),
        ("home", {"scenes": [{"name": "Dusk"}]}, "create_scene",
         {"name": "dusk", "lights": LIGHTS}, "another name"),
        ("home", None, "set_heating_schedule",
         {"room": "study", "slots": [{"start": "22:00", "end": "06:00", "celsius": 20}]}, "midnight"),
        ("home", None, "set_heating_schedule",
         {"room": "study", "slots": [{"start": "06:00", "end": "08:00", "celsius": 20},
                                     {"start": "07:00", "end": "09:00", "celsius": 20}]}, "overlaps"),
        ("lab", None, "describe_column", {"table": "mouse", "column": "weight"}, "'mice'|Known"),
        ("lab", None, "describe_column", {"table": "mice", "column": "wieght"}, "'weight'"),
        ("lab", None, "describe_column", {"table": "mice", "column": "diet"}, "words, no numbers"),
        ("lab", None, "compare_groups", {"table": "mice", "value": "age", "group": "mouse"}, "two groups"),
        ("lab", None, "convert_units", {"value": 1, "from_unit": "gram", "to_unit": "litre"}, "cannot be converted"),
        ("lab", {"offline": ["fridge"]}, "read_sensor", {"device": "fridge"}, "does not answer"),
        ("lab", None, "plan_dilution", {"stock_molar": 1, "target_molar": 2, "final_ml": 5}, "not stronger"),
        ("lab", None, "start_timer", {"minutes": 5000}, "1440 minutes at most"),
        ("lab", None, "save_note", {"text": " "}, "empty"),
        ("marketplace", None, "get_order", {"order_id": 1}, "No order"),
    ],
)  # fmt: skip
def test_what_is_refused_is_explained_and_changes_nothing(name, start, tool, arguments, message):
    world = load_world(name, start)
    before = world.state
    with pytest.raises(tk.ToolError, match=message):
        call(world, tool, **arguments)
    assert world.state == before


def test_seats_run_out_by_date_and_class():
    world = load_world("travel")
    two = [*IDA, {"name": "Tom Lind", "age_group": "child"}]
    first = json.loads(call(world, "book_seats", train="EC 87", date="2027-05-09", passengers=two))
    assert first["total"] == 63.0  # a child pays half
    with pytest.raises(WorldError, match="0 free seats"):
        call(world, "book_seats", train="EC 87", date="2027-05-09", passengers=IDA)
    call(world, "book_seats", train="EC 87", date="2027-05-10", passengers=IDA)
    call(world, "book_seats", train="EC 87", date="2027-05-09", passengers=IDA, travel_class="first")
    assert len(world.state["bookings"]) == 3


def test_a_start_is_laid_over_the_usual_one_and_checked():
    world = load_world("home", {"rooms": {"study": {"light": 3}}})
    assert world.state["rooms"]["study"]["light"] == 3
    assert world.state["rooms"]["study"]["blinds"] == 0
    assert load_world("home").state["rooms"]["study"]["light"] == 80
    assert laid_over({"a": {"x": 1}}, {"b": 2}) == {"a": {"x": 1}, "b": 2}
    with pytest.raises(ConfigError, match="no 'rooom' to start with. Did you mean 'rooms'"):
        load_world("home", {"rooom": {}})
    with pytest.raises(ConfigError, match="must be an object"):
        load_world("home", [1])
    with pytest.raises(ConfigError, match="cannot start.*UnknownProductError"):
        load_world("marketplace", {"orders": [{**ORDER, "items": [{"product_id": 1, "size": "M"}]}]})


def test_worlds_of_ones_own_win_and_are_checked():
    class Bank:
        tools, state = (), {"money": 1}

        def __init__(self, start):
            pass

    assert load_world("bank", None, {"bank": Bank}).state == {"money": 1}
    assert isinstance(load_world("home", None, {"home": Bank}), Bank)
    with pytest.raises(ConfigError, match=r"no world 'bank'.*worlds=\{'bank'"):
        load_world("bank")
    with pytest.raises(ConfigError, match="no .tools and .state"):
        load_world("bank", None, {"bank": lambda start: object()})
    with pytest.raises(ConfigError, match="no world 'os:system'"):
        load_world("os:system")
