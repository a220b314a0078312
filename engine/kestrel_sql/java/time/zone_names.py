"""The English names of time zones, for the pattern letter z."""

from __future__ import annotations

from kestrel_sql.java.time.zones import Zone, zone_of

_LONG = {
    ("PST", -480): "Pacific Standard Time",
    ("PDT", -420): "Pacific Daylight Time",
    ("MST", -420): "Mountain Standard Time",
    ("MDT", -360): "Mountain Daylight Time",
    ("CST", -360): "Central Standard Time",
    ("CDT", -300): "Central Daylight Time",
    ("EST", -300): "Eastern Standard Time",
    ("EDT", -240): "Eastern Daylight Time",
    ("AST", -240): "Atlantic Standard Time",
    ("ADT", -180): "Atlantic Daylight Time",
    ("NST", -210): "Newfoundland Standard Time",
    ("NDT", -150): "Newfoundland Daylight Time",
    ("AKST", -540): "Alaska Standard Time",
    ("AKDT", -480): "Alaska Daylight Time",
    ("HST", -600): "Hawaii-Aleutian Standard Time",
    ("GMT", 0): "Greenwich Mean Time",
    ("UTC", 0): "Coordinated Universal Time",
    ("BST", 60): "British Summer Time",
    ("IST", 60): "Irish Standard Time",
    ("WET", 0): "Western European Standard Time",
    ("WEST", 60): "Western European Summer Time",
    ("CET", 60): "Central European Standard Time",
    ("CEST", 120): "Central European Summer Time",
    ("EET", 120): "Eastern European Standard Time",
    ("EEST", 180): "Eastern European Summer Time",
    ("MSK", 180): "Moscow Standard Time",
    ("WAT", 60): "West Africa Standard Time",
    ("CAT", 120): "Central Africa Time",
    ("EAT", 180): "East Africa Time",
    ("SAST", 120): "South Africa Standard Time",
    ("IST", 120): "Israel Standard Time",
    ("IDT", 180): "Israel Daylight Time",
    ("IST", 330): "India Standard Time",
    ("PKT", 300): "Pakistan Standard Time",
    ("CST", 480): "China Standard Time",
    ("HKT", 480): "Hong Kong Standard Time",
    ("JST", 540): "Japan Standard Time",
    ("KST", 540): "Korean Standard Time",
    ("WIB", 420): "Western Indonesia Time",
    ("WITA", 480): "Central Indonesia Time",
    ("WIT", 540): "Eastern Indonesia Time",
    ("AWST", 480): "Australian Western Standard Time",
    ("ACST", 570): "Australian Central Standard Time",
    ("ACDT", 630): "Australian Central Daylight Time",
    ("AEST", 600): "Australian Eastern Standard Time",
    ("AEDT", 660): "Australian Eastern Daylight Time",
    ("NZST", 720): "New Zealand Standard Time",
    ("NZDT", 780): "New Zealand Daylight Time",
}
_WITHOUT_ABBREVIATION = {
    "America/Sao_Paulo": ("BRT", "Brasilia Standard Time"),
    "America/Argentina/Buenos_Aires": ("ART", "Argentina Standard Time"),
    "America/Buenos_Aires": ("ART", "Argentina Standard Time"),
    "America/Bogota": ("COT", "Colombia Standard Time"),
    "America/Lima": ("PET", "Peru Standard Time"),
    "America/Caracas": ("VET", "Venezuela Time"),
    "Asia/Bangkok": ("ICT", "Indochina Time"),
    "Asia/Dhaka": ("BDT", "Bangladesh Standard Time"),
    "Asia/Dubai": ("GST", "Gulf Standard Time"),
    "Asia/Ho_Chi_Minh": ("ICT", "Indochina Time"),
    "Asia/Kabul": ("AFT", "Afghanistan Time"),
    "Asia/Kathmandu": ("NPT", "Nepal Time"),
    "Asia/Kuala_Lumpur": ("MYT", "Malaysia Time"),
    "Asia/Riyadh": ("AST", "Arabian Standard Time"),
    "Asia/Singapore": ("SGT", "Singapore Standard Time"),
    "Asia/Tashkent": ("UZT", "Uzbekistan Standard Time"),
}
"""Zones for which the zone database no longer has an abbreviation: short and full name."""

_SHORT = {
    "Africa/Abidjan": "ATT BST BT GHST",
    "Africa/Johannesburg": "SAST SAT",
    "Africa/Lagos": "WAST WAT",
    "Africa/Maputo": "CAST CAT",
    "Africa/Nairobi": "EAST EAT",
    "America/Argentina/Buenos_Aires": "ARST ART",
    "America/Asuncion": "PYST PYT",
    "America/Bogota": "COST COT",
    "America/Caracas": "VEST VET",
    "America/Cayenne": "GFST GFT",
    "America/Guayaquil": "ECST ECT",
    "America/Guyana": "GYST GYT",
    "America/La_Paz": "BOST BOT",
    "America/Lima": "PEST PET",
    "America/Manaus": "AMST AMT",
    "America/Miquelon": "PMDT PMST PMT",
    "America/Montevideo": "UYST UYT",
    "America/Noronha": "FNST FNT",
    "America/Nuuk": "WGST WGT",
    "America/Paramaribo": "SRST SRT",
    "America/Sao_Paulo": "BRST BRT",
    "America/Scoresbysund": "EGST EGT",
    "America/St_Johns": "NDT NST NT",
    "Antarctica/Davis": "DAVST DAVT",
    "Antarctica/Mawson": "MAWST MAWT",
    "Antarctica/Palmer": "CLST CLT",
    "Antarctica/Rothera": "ROTST ROTT",
    "Antarctica/Vostok": "VOSST VOST",
    "Asia/Almaty": "ALMST ALMT QOSST QOST",
    "Asia/Anadyr": "ANAST ANAT",
    "Asia/Aqtobe": "AQTST AQTT ORAST ORAT QYZST QYZT",
    "Asia/Ashgabat": "TMST TMT",
    "Asia/Baku": "AZST AZT",
    "Asia/Bangkok": "CIT CXST CXT ICST ICT",
    "Asia/Bishkek": "KGST KGT",
    "Asia/Dhaka": "BDST BDT",
    "Asia/Dili": "TLST TLT",
    "Asia/Dubai": "GDT GST GT REST RET SCST SCT",
    "Asia/Dushanbe": "TJST TJT",
    "Asia/Hong_Kong": "HKST HKT",
    "Asia/Hovd": "HOVST HOVT",
    "Asia/Irkutsk": "IRKST IRKT",
    "Asia/Jakarta": "WIB WIST",
    "Asia/Jayapura": "EIST WIT",
    "Asia/Kabul": "AFST AFT",
    "Asia/Kamchatka": "PETST PETT",
    "Asia/Karachi": "PKST PKT",
    "Asia/Kathmandu": "NPST NPT",
    "Asia/Kolkata": "IDT IST IT",
    "Asia/Krasnoyarsk": "KRAST KRAT",
    "Asia/Kuching": "BNST BNT MYST MYT",
    "Asia/Magadan": "MAGST MAGT",
    "Asia/Makassar": "CIST WITA",
    "Asia/Novosibirsk": "NOVST NOVT",
    "Asia/Omsk": "OMSST OMST",
    "Asia/Riyadh": "SYOST SYOT",
    "Asia/Sakhalin": "SAKST SAKT",
    "Asia/Seoul": "KDT KST KT",
    "Asia/Singapore": "SGST SGT",
    "Asia/Srednekolymsk": "SREDT SRET",
    "Asia/Tashkent": "UZST UZT",
    "Asia/Tbilisi": "GEST GET",
    "Asia/Tehran": "IRDT IRST IRT",
    "Asia/Thimphu": "BTST BTT",
    "Asia/Tokyo": "JDT JST JT",
    "Asia/Ulaanbaatar": "CHOST CHOT ULAST ULAT",
    "Asia/Urumqi": "XJDT XJT",
    "Asia/Vladivostok": "VLAST VLAT",
    "Asia/Yakutsk": "YAKST YAKT",
    "Asia/Yangon": "CCST CCT MMST MMT",
    "Asia/Yekaterinburg": "YEKST YEKT",
    "Atlantic/Azores": "AZOST AZOT",
    "Atlantic/Canary": "WEST WET",
    "Atlantic/Cape_Verde": "CVST CVT",
    "Atlantic/Stanley": "FKST FKT",
    "Australia/Adelaide": "ACDT ACST ACT",
    "Australia/Eucla": "ACWDT ACWST ACWT",
    "Australia/Lord_Howe": "LHDT LHST LHT",
    "Australia/Perth": "AWDT AWST AWT",
    "Australia/Sydney": "AEDT AEST AET",
    "Europe/Bucharest": "EEST EET",
    "Europe/Istanbul": "TRST TRT",
    "Europe/Moscow": "MSD MSK",
    "Europe/Paris": "CEST CET MEST MET",
    "Europe/Samara": "SAMST SAMT",
    "Indian/Chagos": "IOST IOT",
    "Indian/Maldives": "MVST MVT TFST TFT",
    "Indian/Mauritius": "MUST MUT",
    "Pacific/Apia": "WSDT WSST WST",
    "Pacific/Auckland": "NZDT NZST NZT",
    "Pacific/Chatham": "CHADT CHAST CHAT",
    "Pacific/Easter": "EASST",
    "Pacific/Efate": "VUST VUT",
    "Pacific/Fakaofo": "TKST TKT",
    "Pacific/Fiji": "FJST FJT",
    "Pacific/Galapagos": "GALST GALT",
    "Pacific/Gambier": "GAMST GAMT",
    "Pacific/Guadalcanal": "PONST PONT SBST SBT",
    "Pacific/Guam": "ChDT ChST ChT",
    "Pacific/Honolulu": "HDT HST HT",
    "Pacific/Kanton": "PHOST PHOT",
    "Pacific/Kiritimati": "LINST LINT",
    "Pacific/Kosrae": "KOSST KOST",
    "Pacific/Marquesas": "MARST MART",
    "Pacific/Nauru": "NRST NRT",
    "Pacific/Niue": "NUST NUT",
    "Pacific/Norfolk": "NFST NFT",
    "Pacific/Noumea": "NCST NCT",
    "Pacific/Pago_Pago": "SDT SST ST",
    "Pacific/Palau": "PWST PWT",
    "Pacific/Port_Moresby": "CHUST CHUT DDUST DDUT PGST PGT",
    "Pacific/Rarotonga": "CKHST CKT",
    "Pacific/Tahiti": "TAHST TAHT",
    "Pacific/Tarawa": "GILST GILT MHST MHT TVST TVT WAKST WAKT WFST WFT",
    "Pacific/Tongatapu": "TOST TOT",
    "SystemV/AST4ADT": "ADT AST AT",
    "SystemV/CST6CDT": "CDT CST CT",
    "SystemV/EST5EDT": "EDT EST ET",
    "SystemV/MST7MDT": "MDT MST MT",
    "SystemV/PST8PDT": "PDT PST PT",
    "SystemV/YST9YDT": "AKDT AKST AKT",
}
"""The short names by which the root locale of Java 17 knows a zone."""

_WINTER, _SUMMER = 1_705_276_800, 1_721_001_600


def zone_name(zone: Zone, second: int, *, full: bool) -> str:
    """Return the short or full English name of a zone at an instant (seconds since the epoch).

    A zone without a name is written as its id or as an offset such as `GMT-03:00`.
    """
    if zone.is_offset:
        return zone.id
    if zone.id in _WITHOUT_ABBREVIATION:
        return _WITHOUT_ABBREVIATION[zone.id][full]
    short = zone.abbreviation_at(second)
    offset = zone.offset_at(second)
    if short == "LMT":
        standard = min(_WINTER, _SUMMER, key=zone.offset_at)
        short, offset = zone.abbreviation_at(standard), zone.offset_at(standard)
    if short[:1] in "+-":
        return "GMT" + (_clock(offset) if offset else "")
    return _LONG.get((short, offset // 60), short) if full else short


def _clock(offset: int) -> str:
    minutes = abs(offset) // 60
    return f"{'-' if offset < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"


def zone_names(*, full: bool) -> dict[str, Zone]:
    """Return the zones that have a short or full name, by the name in lower case."""
    short = {name.lower(): zone_of(region) for region, names in _SHORT.items() for name in names.split()}
    if not full:
        return short
    by_name = {
        "greenwich mean time": zone_of("GMT"),
        "coordinated universal time": zone_of("UTC"),
        "british summer time": zone_of("Africa/Abidjan"),
    }
    for (name, minutes), long in _LONG.items():
        zone = short.get(name.lower())
        if zone is not None and minutes * 60 in (zone.offset_at(_WINTER), zone.offset_at(_SUMMER)):
            by_name[long.lower()] = zone
    return by_name
