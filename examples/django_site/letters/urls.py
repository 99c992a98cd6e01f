"""The pages of the site: one asks for a letter, one says what became of it."""

from django.http import HttpRequest, JsonResponse
from django.urls import path

from letters.tasks import advertise, post


def ask(_: HttpRequest, name: str) -> JsonResponse:
    """Asks for a letter."""
    return JsonResponse({"id": post.enqueue(name).id})


def ask_many(request: HttpRequest) -> JsonResponse:
    """Asks for many, when there is nothing more urgent to do."""
    names = request.GET.getlist("name")
    return JsonResponse({"id": advertise.using(priority=-50).enqueue(names).id})


def look(_: HttpRequest, result_id: str) -> JsonResponse:
    """What became of it."""
    result = post.get_backend().get_result(result_id)
    said = result.return_value if result.status == "SUCCESSFUL" else None
    return JsonResponse({"status": result.status, "said": said, "attempts": result.attempts})


urlpatterns = [
    path("ask/<str:name>", ask),
    path("many", ask_many),
    path("look/<str:result_id>", look),
]
