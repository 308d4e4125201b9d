from fastapi import FastAPI
def mount_page(api): pass
